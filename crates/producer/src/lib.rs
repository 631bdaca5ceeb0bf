//! The HTTP API: submit, status, result, cancel.
