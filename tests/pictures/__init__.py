"""What ``tests.capture_screenshots`` shows: a Loradeck with tenants at work, and the states of its pages."""
