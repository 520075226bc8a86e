package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

func pipe(p params) (measured, error) {
	thereEnd, there, err := os.Pipe()
	if err != nil {
		return measured{}, err
	}
	backEnd, back, err := os.Pipe()
	if err != nil {
		return measured{}, err
	}
	for _, file := range []*os.File{thereEnd, there, backEnd, back} {
		defer file.Close()
	}
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	failures := make(chan error, 2)
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
	task(func() error {
		bytes := make([]byte, 4)
		for trip := 0; trip < p.RoundTrips; trip++ {
			binary.NativeEndian.PutUint32(bytes, uint32(trip))
			if _, err := there.Write(bytes); err != nil {
				return err
			}
			if _, err := io.ReadFull(backEnd, bytes); err != nil {
				return err
			}
			if answer := binary.NativeEndian.Uint32(bytes); answer != uint32(trip)+1 {
				return fmt.Errorf("round trip %d answered %d", trip, answer)
			}
		}
		return nil
	})
	task(func() error {
		bytes := make([]byte, 4)
		for trip := 0; trip < p.RoundTrips; trip++ {
			if _, err := io.ReadFull(thereEnd, bytes); err != nil {
				return err
			}
			binary.NativeEndian.PutUint32(bytes, binary.NativeEndian.Uint32(bytes)+1)
			if _, err := back.Write(bytes); err != nil {
				return err
			}
		}
		return nil
	})
	ready.Wait()
	m := startMeter()
	close(start)
	done.Wait()
	result := m.stop(p.RoundTrips)
	select {
	case err := <-failures:
		return measured{}, err
	default:
		return result, nil
	}
}

// streamScalar and streamBytes are those of crates/bench/src/workloads/stream.rs.
const (
	streamScalar = 3.0
	streamBytes  = 16 + 16 + 24 + 24
)

// arrays are the three of STREAM, and the value that each has been given.
type arrays struct {
	a, b, c  []float64
	expected [3]float64
}

func newArrays(elements int) *arrays {
	a, b, c := make([]float64, elements), make([]float64, elements), make([]float64, elements)
	for i := range a {
		a[i], b[i], c[i] = 0.5, 0.25, 0
	}
	return &arrays{a: a, b: b, c: c, expected: [3]float64{0.5, 0.25, 0}}
}

// pass is copy, scale, add, triad.
func (s *arrays) pass() {
	a, b, c := s.a, s.b, s.c
	copy(c, a)
	for i := range b {
		b[i] = streamScalar * c[i]
	}
	for i := range c {
		c[i] = a[i] + b[i]
	}
	for i := range a {
		a[i] = b[i] + streamScalar*c[i]
	}
	scaled := streamScalar * s.expected[0]
	added := s.expected[0] + scaled
	s.expected = [3]float64{scaled + streamScalar*added, scaled, added}
}

// check compares all values with what the passes give.
func (s *arrays) check() error {
	for i, array := range [][]float64{s.a, s.b, s.c} {
		for _, value := range array {
			if value != s.expected[i] {
				return fmt.Errorf("an array holds %v, the passes give %v", value, s.expected[i])
			}
		}
	}
	return nil
}

func stream(p params) (measured, error) {
	tasks := runtime.GOMAXPROCS(0)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	filled := make([]*arrays, tasks)
	ready.Add(tasks)
	done.Add(tasks)
	for t := range filled {
		go func() {
			defer done.Done()
			own := newArrays(p.Elements)
			ready.Done()
			<-start
			for pass := 0; pass < p.Passes; pass++ {
				own.pass()
				runtime.Gosched()
			}
			filled[t] = own
		}()
	}
	ready.Wait()
	m := startMeter()
	close(start)
	done.Wait()
	result := m.stop(max(tasks*p.Elements*p.Passes*streamBytes/64, 1))
	checks := make(chan error, tasks)
	for _, own := range filled {
		go func() { checks <- own.check() }()
	}
	var wrong error
	for range filled {
		if err := <-checks; err != nil {
			wrong = err
		}
	}
	return result, wrong
}

// numa mirrors workloads/numa.rs. Go's atomics are sequentially consistent: a store there is a locked exchange, which relaxed ones of Rust are
// not, so a writer's turn costs more; there is no cheaper one that its compiler leaves alone.
func numa(p params) (measured, error) {
	const each, stretch = 2, 10_000
	type cacheLine struct {
		_    [64]byte
		x, y atomic.Uint32
		_    [56]byte
	}
	line := new(cacheLine)
	line.x.Store(1)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	// A line each: the sums are no part of the question.
	type paddedSum struct {
		sum uint64
		_   [56]byte
	}
	sums := make([]paddedSum, each)
	ready.Add(2 * each)
	done.Add(2 * each)
	task := func(body, end func()) {
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			for turn := 0; turn < p.Turns; turn += stretch {
				for i := 0; i < min(stretch, p.Turns-turn); i++ {
					body()
				}
				runtime.Gosched()
			}
			end()
		}()
	}
	for i := 0; i < each; i++ {
		own := &sums[i]
		task(func() { own.sum += uint64(line.x.Load()) }, func() {})
		task(func() { line.y.Store(max(line.y.Load()+1, 1)) }, func() { line.x.Add(1) })
	}
	ready.Wait()
	m := startMeter()
	close(start)
	done.Wait()
	result := m.stop(2 * each * p.Turns)
	all, sum, x, y := uint64(each*p.Turns), sums[0].sum+sums[1].sum, uint64(line.x.Load()), uint64(line.y.Load())
	if sum < all || sum > all*(1+each) || x != 1+each || y < 1 || y > all {
		return measured{}, fmt.Errorf("the readers' sum over %d turns each is %d, the last values are %d and %d", p.Turns, sum, x, y)
	}
	return result, nil
}
