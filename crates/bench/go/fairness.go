package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

func sinceNs(start time.Time) int64 { return time.Since(start).Nanoseconds() }

func work(duration time.Duration) {
	for start := time.Now(); time.Since(start) < duration; {
	}
}

// waits is what a task has seen of waiting.
type waits struct{ count, longest int64 }

func (w *waits) add(since time.Time) {
	w.count++
	w.longest = max(w.longest, sinceNs(since))
}

func (w *waits) merge(other waits) {
	w.count += other.count
	w.longest = max(w.longest, other.longest)
}

// patience is the PATIENCE of workloads/fairness.rs.
const patience = 60 * time.Second

// allArrived yields until every yielder has come to run.
func allArrived(arrived []atomic.Bool) error {
	begin := time.Now()
	for i := range arrived {
		for !arrived[i].Load() {
			if time.Since(begin) >= patience {
				return fmt.Errorf("yielder %d of %d did not run in %v", i+1, len(arrived), patience)
			}
			runtime.Gosched()
		}
	}
	return nil
}

func spin(p params) (measured, error) {
	var ready sync.WaitGroup
	start := make(chan struct{})
	woken, yielders := make(chan waits, p.Woken), make(chan waits, p.Yielders)
	wakers := make([]chan time.Time, p.Woken)
	arrived := make([]atomic.Bool, p.Yielders)
	spun := make(chan error, 1)
	var stop atomic.Bool
	ready.Add(p.Woken + p.Yielders)
	for i := range wakers {
		waker := make(chan time.Time, 1)
		wakers[i] = waker
		go func() {
			ready.Done()
			<-start
			var w waits
			w.add(<-waker)
			woken <- w
		}()
	}
	for i := 0; i < p.Yielders; i++ {
		go func() {
			ready.Done()
			<-start
			var w waits
			since := time.Now()
			arrived[i].Store(true)
			for {
				runtime.Gosched()
				w.add(since)
				if stop.Load() {
					break
				}
				since = time.Now()
			}
			yielders <- w
		}()
	}
	ready.Wait()
	m := startMeter()
	close(start)
	go func() {
		for i := 0; i < 100; i++ {
			runtime.Gosched()
		}
		err := allArrived(arrived)
		for _, waker := range wakers {
			waker <- time.Now()
		}
		work(time.Duration(p.SpinUs) * time.Microsecond)
		stop.Store(true)
		spun <- err
	}()
	var ofWoken, ofYielders waits
	for i := 0; i < p.Woken; i++ {
		ofWoken.merge(<-woken)
	}
	for i := 0; i < p.Yielders; i++ {
		ofYielders.merge(<-yielders)
	}
	result := m.stop(int(ofWoken.count + ofYielders.count))
	if err := <-spun; err != nil {
		return measured{}, err
	}
	result.Counters["longest_wait_woken_ns"] = ofWoken.longest
	result.Counters["longest_wait_yielders_ns"] = ofYielders.longest
	longest := max(ofWoken.longest, ofYielders.longest)
	result.LongestWaitNs = &longest
	return result, nil
}

func closed(p params) (measured, error) {
	type post struct {
		index int
		since time.Time
	}
	workTime := time.Duration(p.WorkUs) * time.Microsecond
	var ready sync.WaitGroup
	ready.Add(p.Tasks)
	start := make(chan struct{})
	all := make(chan waits, p.Tasks)
	posts := make(chan post, p.Tasks)
	answers := make([]chan time.Time, p.Tasks)
	for i := 0; i < p.Tasks; i++ {
		answers[i] = make(chan time.Time, 1)
		go func() {
			ready.Done()
			<-start
			var w waits
			for turn := 0; turn < p.Turns; turn++ {
				work(workTime)
				if p.ViaChannel {
					posts <- post{i, time.Now()}
					w.add(<-answers[i])
				} else {
					since := time.Now()
					runtime.Gosched()
					w.add(since)
				}
			}
			all <- w
		}()
	}
	messenger := make(chan waits, 1)
	go func() {
		var w waits
		for post := range posts {
			w.add(post.since)
			answers[post.index] <- time.Now()
		}
		messenger <- w
	}()
	ready.Wait()
	m := startMeter()
	close(start)
	var total waits
	for i := 0; i < p.Tasks; i++ {
		total.merge(<-all)
	}
	close(posts)
	total.merge(<-messenger)
	result := m.stop(int(total.count))
	result.LongestWaitNs = &total.longest
	expected := p.Tasks * p.Turns
	if p.ViaChannel {
		expected *= 2
	}
	if total.count != int64(expected) {
		return measured{}, fmt.Errorf("%d waits were seen, %d expected", total.count, expected)
	}
	return result, nil
}
