package main

import (
	"fmt"
	"sync"
	"time"
)

// children of a node of skynet.
const children = 10

func skynet(p params) (measured, error) {
	m := startMeter()
	root := make(chan int, 1)
	go node(root, 0, p.Leaves)
	sum := <-root
	result := m.stop((p.Leaves*children - 1) / (children - 1))
	if expected := p.Leaves * (p.Leaves - 1) / 2; sum != expected {
		return measured{}, fmt.Errorf("the leaves sum up to %d, not %d", sum, expected)
	}
	return result, nil
}

// node is the goroutine above the leaves from first on; Go has no join, so results go through a channel, as in the original.
func node(result chan<- int, first, leaves int) {
	if leaves == 1 {
		result <- first
		return
	}
	below := leaves / children
	results := make(chan int, children)
	for child := 0; child < children; child++ {
		go node(results, first+child*below, below)
	}
	sum := 0
	for child := 0; child < children; child++ {
		sum += <-results
	}
	result <- sum
}

func sleepers(p params) (measured, error) {
	var ready, done sync.WaitGroup
	wake := make(chan struct{})
	results := make([]int, p.Threads)
	ready.Add(p.Threads)
	done.Add(p.Threads)

	before, err := residentBytes()
	if err != nil {
		return measured{}, err
	}
	m := startMeter()
	start := time.Now()
	for i := 0; i < p.Threads; i++ {
		go func() {
			defer done.Done()
			ready.Done()
			<-wake
			results[i] = i
		}()
	}
	ready.Wait()
	createNs := sinceNs(start)

	resident, err := residentBytes()
	if err != nil {
		return measured{}, err
	}

	start = time.Now()
	close(wake)
	done.Wait()
	wakeJoinNs := sinceNs(start)
	result := m.stop(p.Threads)
	result.WallNs = createNs + wakeJoinNs
	result.Counters["create_ns"] = createNs
	result.Counters["rss_bytes"] = max(resident-before, 0)
	result.Counters["wake_join_ns"] = wakeJoinNs

	sum := 0
	for _, number := range results {
		sum += number
	}
	if expected := p.Threads * (p.Threads - 1) / 2; sum != expected {
		return measured{}, fmt.Errorf("the results sum up to %d, not %d", sum, expected)
	}
	return result, nil
}
