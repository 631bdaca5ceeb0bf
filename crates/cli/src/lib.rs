//! holdfastctl, the operator's tool.
