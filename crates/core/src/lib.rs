//! The lease protocol: keys, scripts, wire types.
