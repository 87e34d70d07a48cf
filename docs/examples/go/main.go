// An HTTP server with Go's library.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func env(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hello %s, from Go, %s\n", env("TARGET", "World"), env("K_REVISION", "-"))
	})
	server := &http.Server{Addr: ":" + env("PORT", "8080")}
	ended := make(chan struct{})
	go func() {
		// SIGTERM: no new requests; those that have begun are finished.
		stop, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer cancel()
		<-stop.Done()
		limit, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.Shutdown(limit); err != nil {
			log.Print(err)
		}
		close(ended)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
	<-ended
}
