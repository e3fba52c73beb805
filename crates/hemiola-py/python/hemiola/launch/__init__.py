"""Launchers: programs as peers on Ray, Dask and Spark, and as processes of this host.

Every launcher fulfils one contract. It starts a process per peer and gives it rank, size, meeting
point and secret in the variables ``HEMIOLA_*``. It returns the results by rank. When one peer fails,
it ends all of them and raises `PeerError` with rank and traceback. See ``_process.py``.

| module | engine |
|---|---|
| ``hemiola.launch.local`` | processes of this host; ``hemiola.run(main, peers=4)`` |
| ``hemiola.launch.ray`` | actors of a Ray cluster |
| ``hemiola.launch.dask`` | workers of a Dask cluster |
| ``hemiola.launch.spark`` | tasks of a barrier stage of Spark |

The modules import their engine when they are used.
"""

from ._outcome import PeerError

__all__ = ["PeerError"]
