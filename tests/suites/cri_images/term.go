// Package term is a stand-in for the one package of k8s.io/kubectl that crictl uses: a terminal that is raw while
// a function runs, and whose size is told on.  See tests/suites/cri.py.
package term

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	xterm "golang.org/x/term"
	"k8s.io/client-go/tools/remotecommand"
)

// TTY is the person's terminal.
type TTY struct {
	In  io.Reader
	Out io.Writer
	Raw bool
}

func descriptor(stream any) (int, bool) {
	file, ok := stream.(*os.File)
	if !ok {
		return -1, false
	}
	return int(file.Fd()), xterm.IsTerminal(int(file.Fd()))
}

// IsTerminalIn says whether In is a terminal.
func (t TTY) IsTerminalIn() bool {
	_, ok := descriptor(t.In)
	return ok
}

// GetSize returns the size of Out, or nil where it is no terminal.
func (t TTY) GetSize() *remotecommand.TerminalSize {
	fd, ok := descriptor(t.Out)
	if !ok {
		return nil
	}
	width, height, err := xterm.GetSize(fd)
	if err != nil {
		return nil
	}
	return &remotecommand.TerminalSize{Width: uint16(width), Height: uint16(height)}
}

type sizes chan *remotecommand.TerminalSize

// Next blocks until there is a new size.
func (s sizes) Next() *remotecommand.TerminalSize { return <-s }

// MonitorSize returns a queue that begins with initial and goes on with the size after each SIGWINCH.
func (t TTY) MonitorSize(initial ...*remotecommand.TerminalSize) remotecommand.TerminalSizeQueue {
	if _, ok := descriptor(t.Out); !ok {
		return nil
	}
	queue := make(sizes, len(initial))
	for _, size := range initial {
		if size != nil {
			queue <- size
		}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		for range changed {
			if size := t.GetSize(); size != nil {
				queue <- size
			}
		}
	}()
	return queue
}

// Safe runs work with In in raw mode, and puts it back however work ends.
func (t TTY) Safe(work func() error) error {
	fd, ok := descriptor(t.In)
	if !ok || !t.Raw {
		return work()
	}
	before, err := xterm.MakeRaw(fd)
	if err != nil {
		return err
	}
	defer xterm.Restore(fd, before)
	return work()
}
