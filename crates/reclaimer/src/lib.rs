//! Gives back what dead workers held, promotes, expires, sweeps.
