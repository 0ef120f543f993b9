//! Nothing of its own: the accepted forms of the attribute are compiled again, in another edition.
#![forbid(unsafe_code)]
