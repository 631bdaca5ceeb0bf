//! holdfast: every role in one process over a private Redis.
