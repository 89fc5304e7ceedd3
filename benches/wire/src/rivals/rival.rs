//! The interface of all rivals, through which the bench runs them without knowing their libraries.

/// A codec of another project: functions that decode the batch, and that encode the decoded spans.
pub(crate) struct Rival {
    pub(crate) name: &'static str,
    pub(crate) decode: Box<dyn FnMut()>,
    pub(crate) encode: Box<dyn FnMut()>,
}
