"""The paper's figures; one on its clocks, one on the defaults, one on every transport.

Each is a module with an `EXPERIMENT`; see `common.Experiment`.
"""
