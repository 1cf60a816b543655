"""Starts workers as Slurm jobs, runs a sweep on them, and ends them.

Run it where jobs can be submitted: `python slurm.py`, with onramp-lab[dask] and dask-jobqueue installed.
"""

from dask_jobqueue import SLURMCluster
from distributed import Client

import onramp

# One job is a node's share: so many scenarios run at a time in it.
cluster = SLURMCluster(cores=8, processes=8, memory="32GB", walltime="02:00:00")
cluster.scale(jobs=2)
with cluster, Client(cluster) as client:
    client.wait_for_workers(1, timeout=600)
    table = onramp.sweep(
        "mine.toml",
        {
            "onramp.threshold": ["12us", "16us", "30us"],
            "seed": [1, 2, 3, 4, 5],
            "onramp.enabled": [False, True],
        },
        out="results/mine",
        workers=cluster.scheduler_address,
    )
print(f"{table.num_rows} runs in results/mine")
