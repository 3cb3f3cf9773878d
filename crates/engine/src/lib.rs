//! Acts: git, processes, agents, checks, the loop.
