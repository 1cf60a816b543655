"""Studies beside the paper: of what On-Ramp is compared with, or stands on.

Each is a module as those of `onramp.paper` are.
"""
