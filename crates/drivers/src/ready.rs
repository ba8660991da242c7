//! When an answer of PostgreSQL is complete.

/// The end of what a server has said so far. PostgreSQL says at the end of each answer that it is
/// ready for the next question; the message may arrive in parts.
#[derive(Default)]
pub(crate) struct Ready([u8; 6]);

impl Ready {
    /// Hears more from the server; answers whether that was all for now.
    pub fn hear(&mut self, bytes: &[u8]) -> bool {
        let last = &bytes[bytes.len().saturating_sub(self.0.len())..];
        self.0.rotate_left(last.len());
        let known = self.0.len() - last.len();
        self.0[known..].copy_from_slice(last);
        matches!(self.0, [b'Z', 0, 0, 0, 5, _])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_complete_at_its_end_however_it_is_cut() {
        let answer = b"some rows, Z\0\0\0\x05T in them, Z\0\0\0\x05I";
        for size in 1..answer.len() {
            let mut ready = Ready::default();
            let told: Vec<bool> = answer.chunks(size).map(|part| ready.hear(part)).collect();
            assert_eq!(told.last(), Some(&true), "in parts of {size}");
        }
        let mut ready = Ready::default();
        assert!(!ready.hear(&answer[..answer.len() - 1]) && ready.hear(b"I") && !ready.hear(b"more"));
    }
}
