//! The definitions of the levels, literally.
