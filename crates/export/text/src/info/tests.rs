//! Text and JSON of a made-up collection.
