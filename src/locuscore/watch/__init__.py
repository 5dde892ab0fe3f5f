"""What happens after deployment: is the promise of a scorer still kept, and who finds out first?"""
