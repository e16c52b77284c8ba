"""Interlace inside other programs: each module is a plug-in for one of them.

A module imports its program, so it is imported by the program or by a user of it, and by no other
module.
"""
