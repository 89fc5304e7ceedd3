//! Events as JSON, one object a line.
