// Two clients count in a map, and lose updates: go run recorder.go counter.go counter.jsonl
package main

import (
	"os"
	"sync"
	"time"
)

func main() {
	recorder := NewRecorder(os.Args[1], []Initial{{"counter", 0}})
	var lock sync.Mutex
	store := map[string]int{}
	nothing := func() error { return nil }
	var clients sync.WaitGroup
	for client := 0; client < 2; client++ {
		clients.Add(1)
		session := recorder.Session()
		go func() {
			defer clients.Done()
			for i := 0; i < 20; i++ {
				txn, _ := session.Begin(nothing)
				seen, _ := txn.Read("counter", func() (any, error) {
					lock.Lock()
					defer lock.Unlock()
					return store["counter"], nil
				})
				time.Sleep(time.Millisecond)
				txn.Write("counter", seen.(int)+1, func() error {
					lock.Lock()
					defer lock.Unlock()
					store["counter"] = seen.(int) + 1
					return nil
				})
				txn.Commit(nothing, nil)
			}
		}()
	}
	clients.Wait()
}
