"""What happens after deployment: decisions kept, labels joined, promises watched."""
