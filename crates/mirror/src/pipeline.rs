//! The two-level pipeline: what clients record, one by one, comes out in the order of `before`.
//!
//! # Problem
//! Each client records its operations in order, at its own pace; the verifier needs all of them in
//! one order, as early as possible.
//!
//! # Algorithm
//! Each client fills a local buffer and hands it over in batches. The pipeline keeps the batches of
//! each client in a queue. The *watermark* is the earliest time at which something not handed over
//! yet may have been called: the least over the clients of what each has promised. Whatever is
//! earlier than the watermark is due. The times of all that is due are put in order ([`Due`]),
//! without the items; then the items go out, each moved once.
//!
//! # Invariants
//! - What comes out is sorted by `before`; operations of one client keep their order.
//! - A client that is idle promises by [`Client::idle`] not to have called anything before a time;
//!   one that is gone is dropped, which promises everything. Neither stalls the others.
//!
//! # Differs from the paper
//! The paper's watermark is the first entry of the fullest local buffers, so an empty buffer stalls
//! it. Here a promise takes the place of an entry. Clients hand over whole batches through a
//! channel, so a client never waits for the merge. The times are put in order by counting in place
//! of a heap of batches.
//!
//! # Cost
//! O(1) per item, as long as times of one dispatch are not too far apart, and O(clients) per
//! dispatch; memory for what was handed over and is not below the watermark.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::due::Due;

/// How many operations a client collects before it hands them over.
const BATCH: usize = 64;

enum Message<T> {
    /// A batch, and the time before which nothing more will come.
    Batch(usize, Vec<(i64, T)>, i64),
}

/// A client's end: its local buffer.
pub struct Client<T> {
    number: usize,
    buffer: Vec<(i64, T)>,
    promised: i64,
    sender: Sender<Message<T>>,
}

impl<T> Client<T> {
    /// Records an item that was called at `before`. A time that goes back behind what was promised
    /// is an error of the client's clock, and is refused.
    ///
    /// # Errors
    /// The item, if it comes too late.
    pub fn push(&mut self, before: i64, item: T) -> Result<(), T> {
        if before < self.promised {
            return Err(item);
        }
        self.promised = before;
        self.buffer.push((before, item));
        if self.buffer.len() >= BATCH {
            self.hand_over();
        }
        Ok(())
    }

    /// Promises that nothing will be called before `time`, and hands over what there is.
    pub fn idle(&mut self, time: i64) {
        self.promised = self.promised.max(time);
        self.hand_over();
    }

    fn hand_over(&mut self) {
        let empty = Vec::with_capacity(if self.buffer.is_empty() { 0 } else { BATCH });
        let batch = std::mem::replace(&mut self.buffer, empty);
        // Nobody listens any more: then nobody misses it.
        let _ = self.sender.send(Message::Batch(self.number, batch, self.promised));
    }
}

impl<T> Drop for Client<T> {
    fn drop(&mut self) {
        self.promised = i64::MAX;
        self.hand_over();
    }
}

/// What a client has handed over, batch by batch.
struct Queue<T> {
    current: std::vec::IntoIter<(i64, T)>,
    batches: VecDeque<Vec<(i64, T)>>,
}

impl<T> Queue<T> {
    fn new() -> Self {
        Self { current: Vec::new().into_iter(), batches: VecDeque::new() }
    }

    fn push(&mut self, batch: Vec<(i64, T)>) {
        if self.current.as_slice().is_empty() {
            self.current = batch.into_iter();
        } else if !batch.is_empty() {
            self.batches.push_back(batch);
        }
    }

    /// When the first item was called.
    fn first(&self) -> Option<i64> {
        self.current.as_slice().first().map(|(before, _)| *before)
    }

    /// The items of each batch that were called before a time; if there is none, all.
    fn due(&self, watermark: Option<i64>) -> impl Iterator<Item = &[(i64, T)]> {
        let slices = std::iter::once(self.current.as_slice()).chain(self.batches.iter().map(Vec::as_slice));
        slices
            .map(move |all| match watermark {
                Some(watermark) if all.last().is_some_and(|(last, _)| *last >= watermark) => {
                    &all[..all.partition_point(|(before, _)| *before < watermark)]
                }
                _ => all,
            })
            .take_while(|due| !due.is_empty())
    }

    fn pop(&mut self) -> Option<(i64, T)> {
        let item = self.current.next();
        if self.current.as_slice().is_empty()
            && let Some(batch) = self.batches.pop_front()
        {
            self.current = batch.into_iter();
        }
        item
    }

    fn len(&self) -> usize {
        self.current.len() + self.batches.iter().map(Vec::len).sum::<usize>()
    }
}

/// The global end.
pub struct Pipeline<T> {
    receiver: Receiver<Message<T>>,
    queues: Vec<Queue<T>>,
    promised: Vec<i64>,
    /// What is due; kept for its memory.
    due: Due,
}

impl<T> Pipeline<T> {
    /// A pipeline with so many clients.
    #[must_use]
    pub fn new(clients: usize) -> (Self, Vec<Client<T>>) {
        let (sender, receiver) = channel();
        let client = |number| Client {
            number,
            buffer: Vec::with_capacity(BATCH),
            promised: i64::MIN,
            sender: sender.clone(),
        };
        let ends = (0..clients).map(client).collect();
        let queues = (0..clients).map(|_| Queue::new()).collect();
        let promised = vec![i64::MIN; clients];
        (Self { receiver, queues, promised, due: Due::default() }, ends)
    }

    /// Takes what clients have handed over so far, and gives out in order whatever nothing can come
    /// before any more.
    pub fn dispatch(&mut self, mut out: impl FnMut(i64, T)) {
        while let Ok(message) = self.receiver.try_recv() {
            self.take(message);
        }
        self.merge(&mut out);
    }

    /// Waits for more, and dispatches it. Answers whether more may come.
    pub fn wait(&mut self, mut out: impl FnMut(i64, T)) -> bool {
        let more = self.receiver.recv().map(|message| self.take(message)).is_ok();
        self.dispatch(&mut out);
        more
    }

    /// How many items wait for the watermark.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queues.iter().map(Queue::len).sum()
    }

    fn take(&mut self, Message::Batch(client, batch, promised): Message<T>) {
        self.queues[client].push(batch);
        self.promised[client] = promised;
    }

    fn merge(&mut self, out: &mut impl FnMut(i64, T)) {
        let watermark = self.promised.iter().copied().min().filter(|watermark| *watermark < i64::MAX);
        let Some(first) = self.queues.iter().filter_map(Queue::first).min() else { return };
        let ends = self.queues.iter().filter_map(|queue| queue.due(watermark).last()?.last());
        let Some(last) = ends.map(|(before, _)| *before).max() else { return };
        if !Due::fits(first, last, self.queues.len()) {
            return self.merge_by_comparison(watermark, out);
        }
        self.due.clear();
        for (client, queue) in self.queues.iter().enumerate() {
            for batch in queue.due(watermark) {
                self.due.extend(client, first, batch.iter().map(|(before, _)| *before));
            }
        }
        for client in self.due.clients(last.abs_diff(first)) {
            if let Some((before, item)) = self.queues[client].pop() {
                out(before, item);
            }
        }
    }

    /// For times that are too far apart, and for very many clients.
    fn merge_by_comparison(&mut self, watermark: Option<i64>, out: &mut impl FnMut(i64, T)) {
        let mut due: Vec<(i64, usize)> = Vec::new();
        for (client, queue) in self.queues.iter().enumerate() {
            due.extend(queue.due(watermark).flatten().map(|(before, _)| (*before, client)));
        }
        due.sort_unstable();
        for (_, client) in due {
            if let Some((before, item)) = self.queues[client].pop() {
                out(before, item);
            }
        }
    }
}
