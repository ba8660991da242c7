// Records what your application saw, for `margay check` (docs/RECORD.md). One file, nothing but Go: paste it in.
//
//	recorder := NewRecorder("history.jsonl", []Initial{{"x", 0}})
//	session := recorder.Session()                 // one per client: a goroutine, a connection
//	txn := session.Begin(func() error { return db.Begin() })
//	x, err := txn.Read("x", func() (any, error) { return db.Get("x") })
//	err = txn.Write("x", 1, func() error { return db.Put("x", 1) })
//	err = txn.Commit(func() error { return db.Commit() }, isConflict)
//
// An object is a key, or []any{table, key} for a row, whose value is a map of columns.
package main

import (
	"encoding/json"
	"os"
	"sync"
	"time"
)

// Initial says what is there before the first transaction.
type Initial struct{ Object, Value any }

type Recorder struct {
	lock           sync.Mutex
	file           *os.File
	start          time.Time
	sessions, txns int
}

// Session is one client, which does one thing after another.
type Session struct {
	recorder *Recorder
	number   int
}

type Transaction struct {
	recorder        *Recorder
	session, number int
}

type line = map[string]any

func NewRecorder(path string, initial []Initial) *Recorder {
	file, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	recorder := &Recorder{file: file, start: time.Now()}
	pairs := []any{}
	for _, one := range initial {
		pairs = append(pairs, []any{one.Object, one.Value})
	}
	recorder.put(line{"margay": 1, "unit": "ns", "initial": pairs})
	return recorder
}

func (r *Recorder) put(what line) {
	text, err := json.Marshal(what)
	if err == nil {
		_, err = r.file.Write(append(text, '\n'))
	}
	if err != nil {
		panic(err)
	}
}

func (r *Recorder) Session() *Session {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.sessions++
	return &Session{r, r.sessions}
}

// Begin calls, and records that the transaction began.
func (s *Session) Begin(call func() error) (*Transaction, error) {
	s.recorder.lock.Lock()
	s.recorder.txns++
	txn := &Transaction{s.recorder, s.number, s.recorder.txns}
	s.recorder.lock.Unlock()
	return txn, txn.called(call, func() line { return line{"begin": true} }, nil)
}

// called calls, and records what `told` makes of success, or `failed` of an error; nothing where that is nil.
func (t *Transaction) called(call func() error, told func() line, failed func(error) line) error {
	before := time.Since(t.recorder.start).Nanoseconds()
	err := call()
	after := time.Since(t.recorder.start).Nanoseconds()
	what := line(nil)
	if err == nil {
		what = told()
	} else if failed != nil {
		what = failed(err)
	}
	if what != nil {
		what["session"], what["txn"], what["at"] = t.session, t.number, []int64{before, after}
		t.recorder.lock.Lock()
		defer t.recorder.lock.Unlock()
		t.recorder.put(what)
	}
	return err
}

// Read calls, records and returns what the call returned.
func (t *Transaction) Read(object any, call func() (any, error)) (any, error) {
	var value any
	read := func() (err error) { value, err = call(); return err }
	err := t.called(read, func() line { return line{"read": []any{[]any{object, value}}} }, nil)
	return value, err
}

// Write records a write that may have happened even if the call fails: unless the transaction commits, it does not count.
func (t *Transaction) Write(object, value any, call func() error) error {
	told := func() line { return line{"write": []any{[]any{object, value}}} }
	return t.called(call, told, func(error) line { return told() })
}

// Commit records a commit. An error that `refused` knows says for certain that there was none; any other leaves it open.
func (t *Transaction) Commit(call func() error, refused func(error) bool) error {
	failed := func(err error) line {
		if refused != nil && refused(err) {
			return line{"abort": true}
		}
		return line{"unknown": true}
	}
	return t.called(call, func() line { return line{"commit": true} }, failed)
}

// Abort records that the transaction was rolled back.
func (t *Transaction) Abort(call func() error) error {
	return t.called(call, func() line { return line{"abort": true} }, nil)
}
