// The store of files of toy.js in Go: one transaction at a time, by a lock. A driver for Margay (docs/EXEC.md).
//
//	margay run 'exec:go run examples/drivers/toy.go toy-go' --workload increment
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"
)

type object = map[string]any

var (
	folder  = os.Args[1]
	written = map[string]*string{}
	locked  = false
)

func file(key string) string { return filepath.Join(folder, url.QueryEscape(key)) }
func lock() string           { return filepath.Join(folder, "lock") }

func end() object {
	written = map[string]*string{}
	if locked {
		os.Remove(lock())
	}
	locked = false
	return object{}
}

func read(key string) any {
	if value, own := written[key]; own {
		if value == nil {
			return nil
		}
		return *value
	}
	text, err := os.ReadFile(file(key))
	if err != nil {
		return nil
	}
	return string(text)
}

func answer(ask object) object {
	key, _ := ask["key"].(string)
	switch ask["op"] {
	case "hello":
		return object{"name": "toy-go", "levels": []string{"SERIALIZABLE"}, "promises": []string{"strict-serializable"}}
	case "begin":
		for ; !locked; time.Sleep(time.Millisecond) {
			locked = os.Mkdir(lock(), 0o755) == nil
		}
		return object{}
	case "read":
		return object{"value": read(key)}
	case "write":
		if value, there := ask["value"].(string); there {
			written[key] = &value
		} else {
			written[key] = nil
		}
		return object{}
	case "commit":
		for key, value := range written {
			if value == nil {
				os.Remove(file(key))
			} else if err := os.WriteFile(file(key), []byte(*value), 0o644); err != nil {
				return object{"failed": err.Error()}
			}
		}
	}
	return end()
}

func main() {
	os.MkdirAll(folder, 0o755)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var ask object
		json.Unmarshal(lines.Bytes(), &ask)
		told, _ := json.Marshal(answer(ask))
		fmt.Println(string(told))
	}
}
