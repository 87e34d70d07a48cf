// The smallest server of net/http, for ./dev bench --series servers.
package main

import (
	"io"
	"net/http"
)

func hello(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello\n") }

func main() { panic(http.ListenAndServe("127.0.0.1:17380", http.HandlerFunc(hello))) }
