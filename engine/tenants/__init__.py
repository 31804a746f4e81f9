"""Who may use Loradeck: tenants, people, API keys, their rights and limits."""
