package main

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"
)

// matrices mirrors those of workloads/schbench_requests.rs.
type matrices struct {
	side          int
	a, b, product []uint64
}

func newMatrices(kib int) *matrices {
	side := max(int(math.Sqrt(float64(kib*1024/3/8))), 1)
	numbers := func(from int) []uint64 {
		made := make([]uint64, side*side)
		for i := range made {
			made[i] = uint64((from + i) % 7)
		}
		return made
	}
	return &matrices{side, numbers(0), numbers(3), make([]uint64, side*side)}
}

func (m *matrices) multiply() {
	side := m.side
	for row := 0; row < side; row++ {
		for column := 0; column < side; column++ {
			var sum uint64
			for index := 0; index < side; index++ {
				sum += m.a[row*side+index] * m.b[index*side+column]
			}
			m.product[row*side+column] = sum
		}
	}
}

// sums are that of the product's numbers, and what it must be.
func (m *matrices) sums() (sum, expected uint64) {
	for _, number := range m.product {
		sum += number
	}
	for index := 0; index < m.side; index++ {
		var column, row uint64
		for other := 0; other < m.side; other++ {
			column += m.a[other*m.side+index]
			row += m.b[index*m.side+other]
		}
		expected += column * row
	}
	return sum, expected
}

// schbenchRequests mirrors workloads/schbench_requests.rs.
func schbenchRequests(p params) (measured, error) {
	type seen struct {
		wakes, requests samples
		sum, expected   uint64
	}
	workers := runtime.GOMAXPROCS(0)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	results := make(chan seen, workers)
	posts := make(chan int, workers)
	wakers := make([]chan time.Time, workers)
	ready.Add(workers)
	done.Add(1)
	for i := range wakers {
		wakes := make(chan time.Time, 1)
		wakers[i] = wakes
		go func() {
			s := seen{wakes: make(samples, 0, p.Requests), requests: make(samples, 0, p.Requests)}
			m := newMatrices(p.Kib)
			ready.Done()
			<-start
			for r := 0; r < p.Requests; r++ {
				posts <- i
				s.wakes.add(time.Since(<-wakes))
				begin := time.Now()
				time.Sleep(time.Duration(p.SleepUs) * time.Microsecond)
				for o := 0; o < p.Operations; o++ {
					m.multiply()
				}
				s.requests.add(time.Since(begin))
			}
			s.sum, s.expected = m.sums()
			results <- s
		}()
	}
	go func() {
		defer done.Done()
		for index := range posts {
			wakers[index] <- time.Now()
		}
	}()
	ready.Wait()
	m := startMeter()
	close(start)
	var all seen
	wrong := false
	for i := 0; i < workers; i++ {
		s := <-results
		all.wakes = append(all.wakes, s.wakes...)
		all.requests = append(all.requests, s.requests...)
		wrong = wrong || s.sum != s.expected
	}
	close(posts)
	done.Wait()
	result := m.stop(workers * p.Requests)
	if wrong || len(all.requests) != workers*p.Requests {
		return measured{}, fmt.Errorf("%d requests of %d, a wrong product: %t", len(all.requests), workers*p.Requests, wrong)
	}
	return all.wakes.into(all.requests.intoRequests(result)), nil
}
