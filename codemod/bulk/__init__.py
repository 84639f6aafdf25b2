"""Many repositories: a plan, what became of each, and a report.

`plan` and `sources` read, `work` does one repository in a process of its own (`job`), `executors` spread them over this
machine or a Dask cluster, `state` remembers, `report` shows. Repositories are only ever read: everything that is made
lies in the work directory beside the plan, until ``--push``.
"""
