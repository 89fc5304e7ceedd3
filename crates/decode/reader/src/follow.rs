//! Reads recordings that go on.
