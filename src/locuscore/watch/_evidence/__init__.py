"""Evidence against a promise, in numbers: arrays in, no database, no clock.

`urn` and `alarm` raise an alarm that may be looked at at any time, `detector` calls and starts
again, `intervals` says where the share lies, and `audit` draws the rows that are labelled.
"""
