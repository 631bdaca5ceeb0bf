//! An inference server in OpenAI form for demos and tests.
