//! Real servers, processes and faults for tests.
