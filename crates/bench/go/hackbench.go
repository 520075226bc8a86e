package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// ticksPerSender and the line below are those of crates/bench/src/workloads/progress.rs.
const ticksPerSender = 64

// pipeBuf is the largest message that several writers may write to one pipe without mixing their bytes.
const pipeBuf = 4096

func reportProgress(ticks *atomic.Int64, all int64) {
	for {
		seen := min(ticks.Load(), all)
		fmt.Fprintln(os.Stderr, "progress", seen, all)
		if seen == all {
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
}

func stamp(index int) byte { return byte(index % 251) }

func hackbench(p params, progress bool) (measured, error) {
	if p.Transport != "channel" {
		return hackbenchRun(p, progress, func() (wire, error) { return newStreamWire(p) })
	}
	switch p.Size {
	case 4:
		return hackbenchRun(p, progress, channelWires[[4]byte](p))
	case 16:
		return hackbenchRun(p, progress, channelWires[[16]byte](p))
	case 64:
		return hackbenchRun(p, progress, channelWires[[64]byte](p))
	case 100:
		return hackbenchRun(p, progress, channelWires[[100]byte](p))
	case 256:
		return hackbenchRun(p, progress, channelWires[[256]byte](p))
	case 1024:
		return hackbenchRun(p, progress, channelWires[[1024]byte](p))
	case 4096:
		return hackbenchRun(p, progress, channelWires[[4096]byte](p))
	}
	return measured{}, fmt.Errorf("messages of %d bytes over channels", p.Size)
}

// wire is what the senders of a group write to and one receiver reads from. Whole loops, not single messages, go through
// the interface, so that a message costs no dynamic call.
type wire interface {
	// sender returns a function that runs a sender's loops over all wires of the group.
	sender(group []wire, loops int, tick func(int)) func() error
	// receive reads count messages and returns the sum of their stamps.
	receive(count int) (int, error)
}

type message interface {
	[4]byte | [16]byte | [64]byte | [100]byte | [256]byte | [1024]byte | [4096]byte
}

type channelWire[T message] struct{ messages chan T }

func channelWires[T message](p params) func() (wire, error) {
	return func() (wire, error) { return channelWire[T]{make(chan T, p.Capacity)}, nil }
}

func (channelWire[T]) sender(group []wire, loops int, tick func(int)) func() error {
	channels := make([]chan T, len(group))
	for i, w := range group {
		channels[i] = w.(channelWire[T]).messages
	}
	return func() error {
		var m T
		for i := 0; i < loops; i++ {
			if tick != nil {
				tick(i)
			}
			m[0] = stamp(i)
			for _, channel := range channels {
				channel <- m
			}
		}
		return nil
	}
}

func (w channelWire[T]) receive(count int) (int, error) {
	sum := 0
	for i := 0; i < count; i++ {
		m := <-w.messages
		sum += int(m[0])
	}
	return sum, nil
}

type streamWire struct {
	reader, writer *os.File
	size           int
}

func newStreamWire(p params) (wire, error) {
	if p.Transport == "pipe" {
		reader, writer, err := os.Pipe()
		return streamWire{reader, writer, p.Size}, err
	}
	kind := syscall.SOCK_STREAM | syscall.SOCK_NONBLOCK | syscall.SOCK_CLOEXEC
	fds, err := syscall.Socketpair(syscall.AF_UNIX, kind, 0)
	if err != nil {
		return nil, err
	}
	return streamWire{os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "writer"), p.Size}, nil
}

func (w streamWire) sender(group []wire, loops int, tick func(int)) func() error {
	writers := make([]*os.File, len(group))
	for i, member := range group {
		writers[i] = member.(streamWire).writer
	}
	return func() error {
		m := make([]byte, w.size)
		for i := 0; i < loops; i++ {
			if tick != nil {
				tick(i)
			}
			m[0] = stamp(i)
			for _, writer := range writers {
				if _, err := writer.Write(m); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

func (w streamWire) receive(count int) (int, error) {
	m := make([]byte, w.size)
	sum := 0
	for i := 0; i < count; i++ {
		if _, err := io.ReadFull(w.reader, m); err != nil {
			return sum, err
		}
		sum += int(m[0])
	}
	return sum, nil
}

func (w streamWire) close() {
	_ = w.reader.Close()
	_ = w.writer.Close()
}

func hackbenchRun(p params, progress bool, connect func() (wire, error)) (measured, error) {
	var tick func(int)
	if progress {
		ticks := new(atomic.Int64)
		every := (p.Loops + ticksPerSender - 1) / ticksPerSender
		tick = func(index int) {
			if index%every == 0 {
				ticks.Add(1)
			}
		}
		go reportProgress(ticks, int64(p.Groups*p.Fds*ticksPerSender))
	}

	perReceiver := p.Fds * p.Loops
	expected := 0
	for i := 0; i < p.Loops; i++ {
		expected += int(stamp(i)) * p.Fds
	}
	torn := p.Transport != "channel" && p.Size > pipeBuf

	var ready, done sync.WaitGroup
	start := make(chan struct{})
	failures := make(chan error, 2*p.Groups*p.Fds)
	task := func(body func() error) {
		ready.Add(1)
		done.Add(1)
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			if err := body(); err != nil {
				failures <- err
			}
		}()
	}
	for g := 0; g < p.Groups; g++ {
		group := make([]wire, p.Fds)
		for i := range group {
			w, err := connect()
			if err != nil {
				return measured{}, err
			}
			if s, ok := w.(streamWire); ok {
				defer s.close()
			}
			group[i] = w
			task(func() error {
				sum, err := w.receive(perReceiver)
				if err == nil && sum != expected && !torn {
					err = fmt.Errorf("a receiver's %d messages sum up to %d, not %d", perReceiver, sum, expected)
				}
				return err
			})
		}
		for range group {
			task(group[0].sender(group, p.Loops, tick))
		}
	}
	ready.Wait()
	m := startMeter()
	close(start)
	done.Wait()
	result := m.stop(p.Groups * p.Fds * perReceiver)
	select {
	case err := <-failures:
		return measured{}, err
	default:
		return result, nil
	}
}
