//! How keys are read.
