// Two clients count in a row of PostgreSQL; what they saw is recorded. Needs github.com/lib/pq.
//
//	go run recorder.go count_in_postgres.go counter.jsonl postgres://user:password@localhost/test "READ COMMITTED"
//
// At READ COMMITTED they lose updates. At REPEATABLE READ and SERIALIZABLE PostgreSQL refuses the second of two.
package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/lib/pq"
)

// isRefused knows the code of a refused transaction: it has not committed.
func isRefused(err error) bool {
	var told *pq.Error
	return errors.As(err, &told) && told.Code == "40001"
}

func orPanic(err error) {
	if err != nil {
		panic(err)
	}
}

func once(database *sql.Conn, session *Session, level string) error {
	do := func(text string, args ...any) func() error {
		return func() error {
			_, err := database.ExecContext(context.Background(), text, args...)
			return err
		}
	}
	txn, err := session.Begin(do("BEGIN ISOLATION LEVEL " + level))
	orPanic(err)
	var n int
	_, err = txn.Read("x", func() (any, error) {
		err := database.QueryRowContext(context.Background(), "SELECT n FROM counter").Scan(&n)
		return n, err
	})
	time.Sleep(2 * time.Millisecond)
	if err == nil {
		err = txn.Write("x", n+1, do("UPDATE counter SET n = $1", n+1))
	}
	if err == nil {
		return txn.Commit(do("COMMIT"), isRefused)
	}
	orPanic(txn.Abort(do("ROLLBACK")))
	return err
}

func main() {
	path, url, level := os.Args[1], os.Args[2], os.Args[3]
	database, err := sql.Open("postgres", url)
	orPanic(err)
	_, err = database.Exec("DROP TABLE IF EXISTS counter; CREATE TABLE counter (n INT); INSERT INTO counter VALUES (0)")
	orPanic(err)
	recorder := NewRecorder(path, []Initial{{"x", 0}})
	var clients sync.WaitGroup
	for client := 0; client < 2; client++ {
		clients.Add(1)
		session := recorder.Session()
		go func() {
			defer clients.Done()
			connection, err := database.Conn(context.Background())
			orPanic(err)
			for i := 0; i < 20; i++ {
				if err := once(connection, session, level); err != nil && !isRefused(err) {
					panic(err)
				}
			}
		}()
	}
	clients.Wait()
}
