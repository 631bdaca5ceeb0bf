//! What makes a library a process: settings, logs, health, metrics, signals, drain.
