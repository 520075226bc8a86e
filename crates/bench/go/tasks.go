package main

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

func spawnJoin(p params) (measured, error) {
	batches := max(p.Tasks/p.Batch, 1)
	results := make([]int, p.Batch)
	sum := 0
	m := startMeter()
	for b := 0; b < batches; b++ {
		var done sync.WaitGroup
		done.Add(p.Batch)
		for i := 0; i < p.Batch; i++ {
			go func() {
				results[i] = i
				done.Done()
			}()
		}
		done.Wait()
		for i, result := range results {
			sum += result
			results[i] = 0
		}
	}
	result := m.stop(batches * p.Batch)
	expected := p.Batch * (p.Batch - 1) / 2 * batches
	if sum != expected {
		return measured{}, fmt.Errorf("the tasks' results sum up to %d, not %d", sum, expected)
	}
	return result, nil
}

func chain(p params) (measured, error) {
	done := make(chan int, 1)
	m := startMeter()
	links := 0
	for r := 0; r < p.Rounds; r++ {
		go link(1, p.Depth, done)
		links += <-done
	}
	result := m.stop(p.Depth * p.Rounds)
	if links != p.Depth*p.Rounds {
		return measured{}, fmt.Errorf("%d links ran, %d were asked for", links, p.Depth*p.Rounds)
	}
	return result, nil
}

// link is the goroutine number index of a chain; each starts the next and ends.
func link(index, depth int, done chan<- int) {
	if index == depth {
		done <- index
	} else {
		go link(index+1, depth, done)
	}
}

func fib(p params) (measured, error) {
	m := startMeter()
	sum := 0
	for r := 0; r < p.Rounds; r++ {
		sum += fork(p.Number)
	}
	result := m.stop(max(fibonacci(p.Number+1)-1, 1) * p.Rounds)
	if expected := fibonacci(p.Number) * p.Rounds; sum != expected {
		return measured{}, fmt.Errorf("the numbers sum up to %d, not %d", sum, expected)
	}
	return result, nil
}

// fork starts a goroutine for one of its two calls and does the other; Go has no join, so the result comes through a channel.
func fork(number int) int {
	if number < 2 {
		return number
	}
	started := make(chan int, 1)
	go func() { started <- fork(number - 1) }()
	own := fork(number - 2)
	return own + <-started
}

func fibonacci(number int) int {
	a, b := 0, 1
	for i := 0; i < number; i++ {
		a, b = b, a+b
	}
	return a
}

func yields(p params) (measured, error) {
	var total measured
	total.Counters = map[string]int64{}
	first := int64(1000)
	for r := 0; r < p.Rounds; r++ {
		result, permille, err := yieldRound(p)
		if err != nil {
			return measured{}, err
		}
		first = min(first, permille)
		total.Ops += result.Ops
		total.WallNs += result.WallNs
		total.UserNs += result.UserNs
		total.SysNs += result.SysNs
		total.Vcsw += result.Vcsw
		total.Ivcsw += result.Ivcsw
	}
	total.Counters["first_done_permille"] = first
	return total, nil
}

func yieldRound(p params) (measured, int64, error) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ends := make([]int64, p.Tasks)
	counts := make([]int, p.Tasks)
	together := make([]int64, p.Tasks)
	underWay := new(atomic.Int64)
	ready.Add(p.Tasks)
	done.Add(p.Tasks)
	var m meter
	for i := 0; i < p.Tasks; i++ {
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			underWay.Add(1)
			count := 0
			for y := 0; y < p.Yields; y++ {
				runtime.Gosched()
				count++
			}
			counts[i] = count
			ends[i] = sinceNs(m.start)
			together[i] = underWay.Add(-1) + 1
		}()
	}
	ready.Wait()
	m = startMeter()
	close(start)
	done.Wait()
	result := m.stop(p.Tasks * p.Yields)
	count, first := 0, result.WallNs
	for i := range ends {
		count += counts[i]
		first = min(first, ends[i])
	}
	if count != p.Tasks*p.Yields {
		return measured{}, 0, fmt.Errorf("%d yields were made, %d asked for", count, p.Tasks*p.Yields)
	}
	// See check_together of crates/bench/src/workloads/yields.rs.
	workers, most := runtime.GOMAXPROCS(0), slices.Max(together)
	if p.Tasks >= 10*workers && p.Yields >= 100 && most <= int64(workers) {
		return measured{}, 0, fmt.Errorf("%d yielded, and never more than %d were under way together on %d workers: a yield let nobody else run", p.Tasks, most, workers)
	}
	return result, first * 1000 / max(result.WallNs, 1), nil
}

func pingPong(p params) (measured, error) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	failures := make(chan error, p.Pairs)
	ready.Add(2 * p.Pairs)
	done.Add(2 * p.Pairs)
	for i := 0; i < p.Pairs; i++ {
		there, back := make(chan int, 1), make(chan int, 1)
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			number := 0
			for trip := 0; trip < p.RoundTrips; trip++ {
				there <- number
				number = <-back
				if number != trip+1 {
					failures <- fmt.Errorf("round trip %d answered %d", trip, number)
					break
				}
			}
			close(there)
		}()
		go func() {
			defer done.Done()
			ready.Done()
			<-start
			for number := range there {
				back <- number + 1
			}
		}()
	}
	ready.Wait()
	m := startMeter()
	close(start)
	done.Wait()
	result := m.stop(p.Pairs * p.RoundTrips)
	select {
	case err := <-failures:
		return measured{}, err
	default:
		return result, nil
	}
}
