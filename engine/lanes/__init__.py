"""The same prompt and adapter from six starting points, measured: pinned, host, disk, remote, merged, a replica of its own."""
