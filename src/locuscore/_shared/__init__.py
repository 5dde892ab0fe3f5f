"""What has no domain in it and is used from several folders."""
