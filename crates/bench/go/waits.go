package main

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

func timers(p params) (measured, error) {
	var ready sync.WaitGroup
	start := make(chan struct{})
	results := make(chan samples, p.Tasks)
	var early atomic.Int64
	ready.Add(p.Tasks)
	for seed := 0; seed < p.Tasks; seed++ {
		go func() {
			r := random(seed)
			late := make(samples, 0, p.Sleeps)
			ready.Done()
			<-start
			for i := 0; i < p.Sleeps; i++ {
				asked := time.Duration(r.between(uint64(p.FromUs), uint64(p.ToUs))) * time.Microsecond
				begin := time.Now()
				time.Sleep(asked)
				slept := time.Since(begin)
				if slept < asked {
					early.Add(1)
				}
				late.add(max(slept-asked, 0))
			}
			results <- late
		}()
	}
	ready.Wait()
	m := startMeter()
	close(start)
	late := make(samples, 0, p.Tasks*p.Sleeps)
	for i := 0; i < p.Tasks; i++ {
		late = append(late, <-results...)
	}
	result := m.stop(p.Tasks * p.Sleeps)
	if early.Load() != 0 || len(late) != p.Tasks*p.Sleeps {
		return measured{}, fmt.Errorf("%d sleeps of %d, %d of them early", len(late), p.Tasks*p.Sleeps, early.Load())
	}
	return late.into(result), nil
}

func timeoutDrop(p params) (measured, error) {
	m := startMeter()
	fired := 0
	for i := 0; i < p.Timers; i++ {
		timer := time.NewTimer(10 * time.Second)
		select {
		case <-timer.C:
			fired++
		default:
		}
		timer.Stop()
	}
	result := m.stop(p.Timers)
	if fired != 0 {
		return measured{}, fmt.Errorf("%d of %d timers fired ten seconds early", fired, p.Timers)
	}
	return result, nil
}

func schbench(p params) (measured, error) {
	var ready sync.WaitGroup
	start := make(chan struct{})
	workTime := time.Duration(p.WorkUs) * time.Microsecond
	closed := p.TickUs == 0
	count := p.Messengers * p.Workers
	// A wake-up, and what a worker has seen of its own; due is zero in the closed loop.
	type wakeUp struct{ due, stamp time.Time }
	type seen struct{ wakes, dues samples }
	results := make(chan seen, count)
	var messengers sync.WaitGroup
	for g := 0; g < p.Messengers; g++ {
		posts := make(chan int, p.Workers)
		wakers := make([]chan wakeUp, p.Workers)
		var group sync.WaitGroup
		for i := range wakers {
			wakes := make(chan wakeUp, 1)
			wakers[i] = wakes
			ready.Add(1)
			group.Add(1)
			go func() {
				defer group.Done()
				latencies := seen{make(samples, 0, p.Rounds), make(samples, 0, p.Rounds)}
				ready.Done()
				<-start
				for r := 0; r < p.Rounds; r++ {
					if closed {
						posts <- i
					}
					wake := <-wakes
					now := time.Now()
					latencies.wakes.add(now.Sub(wake.stamp))
					if !wake.due.IsZero() {
						latencies.dues.add(now.Sub(wake.due))
					}
					work(workTime)
				}
				results <- latencies
			}()
		}
		messengers.Add(1)
		if closed {
			go func() {
				group.Wait()
				close(posts)
			}()
			go func() {
				defer messengers.Done()
				for index := range posts {
					wakers[index] <- wakeUp{stamp: time.Now()}
				}
			}()
			continue
		}
		ready.Add(1)
		go func() {
			defer messengers.Done()
			ticks := random(g)
			ready.Done()
			<-start
			due := time.Now()
			for r := 0; r < p.Rounds; r++ {
				tick := time.Duration(ticks.between(uint64(p.TickUs/2), uint64(p.TickUs+p.TickUs/2))) * time.Microsecond
				due = due.Add(tick)
				if ahead := time.Until(due); ahead > 0 {
					time.Sleep(ahead)
				}
				wake := wakeUp{due, time.Now()}
				for _, waker := range wakers {
					waker <- wake
				}
			}
		}()
	}
	ready.Wait()
	m := startMeter()
	close(start)
	latencies := seen{make(samples, 0, count*p.Rounds), make(samples, 0, count*p.Rounds)}
	for i := 0; i < count; i++ {
		of := <-results
		latencies.wakes = append(latencies.wakes, of.wakes...)
		latencies.dues = append(latencies.dues, of.dues...)
	}
	messengers.Wait()
	result := m.stop(count * p.Rounds)
	if len(latencies.wakes) != count*p.Rounds {
		return measured{}, fmt.Errorf("%d wake-ups, %d expected", len(latencies.wakes), count*p.Rounds)
	}
	if !closed {
		result = latencies.dues.intoDues(result)
	}
	return latencies.wakes.into(result), nil
}

// turns is the TURNS of workloads/mixed.rs.
const turns = 100

func mixed(p params) (measured, error) {
	var ready, computing sync.WaitGroup
	start := make(chan struct{})
	piece := time.Duration(p.PieceUs) * time.Microsecond
	results := make(chan samples, p.Pairs)
	failures := make(chan error, p.Pairs+p.Heavy)
	var stop atomic.Bool
	pieces := make([]int64, p.Heavy)
	ready.Add(2*p.Pairs + p.Heavy)
	for i := 0; i < p.Pairs; i++ {
		there, back := make(chan int, 1), make(chan int, 1)
		go func() {
			latencies := make(samples, 0, p.RoundTrips)
			ready.Done()
			<-start
			number := 0
			for trip := 0; trip < p.RoundTrips; trip++ {
				begin := time.Now()
				there <- number
				number = <-back
				latencies.add(time.Since(begin))
				if number != trip+1 {
					failures <- fmt.Errorf("round trip %d answered %d", trip, number)
					break
				}
			}
			close(there)
			results <- latencies
		}()
		go func() {
			ready.Done()
			<-start
			for number := range there {
				back <- number + 1
			}
		}()
	}
	computing.Add(p.Heavy)
	for i := 0; i < p.Heavy; i++ {
		go func() {
			defer computing.Done()
			ready.Done()
			<-start
			done := int64(0)
			for !stop.Load() {
				work(piece)
				done++
				runtime.Gosched()
			}
			pieces[i] = done
		}()
	}
	ready.Wait()
	m := startMeter()
	close(start)
	latencies := make(samples, 0, p.Pairs*p.RoundTrips)
	for i := 0; i < p.Pairs; i++ {
		latencies = append(latencies, <-results...)
	}
	stop.Store(true)
	result := m.stop(p.Pairs * p.RoundTrips)
	computing.Wait()
	all := int64(0)
	for i, done := range pieces {
		all += done
		if done == 0 && result.WallNs >= turns*int64(p.Heavy)*piece.Nanoseconds() {
			return measured{}, fmt.Errorf("heavy task %d of %d computed nothing in %v", i+1, p.Heavy, time.Duration(result.WallNs))
		}
	}
	result.Counters["heavy_pieces"] = all
	select {
	case err := <-failures:
		return measured{}, err
	default:
		return latencies.into(result), nil
	}
}

// prSetTimerslack is PR_SET_TIMERSLACK of prctl(2).
const prSetTimerslack = 29

// load mirrors workloads/load.rs: a thread of its own starts a goroutine for each request when it is due.
func load(p params) (measured, error) {
	workTime := time.Duration(p.WorkUs) * time.Microsecond
	gap := workTime * 100 / time.Duration(p.Percent) / time.Duration(runtime.GOMAXPROCS(0))
	r := random(42)
	var schedule []time.Duration
	for due := r.untilNext(gap); due < time.Duration(p.Millis)*time.Millisecond; due += r.untilNext(gap) {
		schedule = append(schedule, due)
	}
	latencies := make(samples, len(schedule))
	var done sync.WaitGroup
	done.Add(len(schedule))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetTimerslack, 1, 0); errno != 0 {
		return measured{}, unsupported("the kernel does not let a thread sleep exactly (PR_SET_TIMERSLACK)")
	}
	m := startMeter()
	begin := time.Now()
	var latest time.Duration
	for i, offset := range schedule {
		due := begin.Add(offset)
		if wait := time.Until(due); wait > 0 {
			// The thread sleeps, not the goroutine: the runtime's timers are not in question.
			nanos := syscall.NsecToTimespec(wait.Nanoseconds())
			_ = syscall.Nanosleep(&nanos, nil)
		}
		latest = max(latest, time.Since(due))
		go func() {
			work(workTime)
			latencies[i] += time.Since(due).Nanoseconds()
			done.Done()
		}()
	}
	done.Wait()
	result := m.stop(len(schedule))
	result.Counters["generator_late_max_ns"] = latest.Nanoseconds()
	for _, latency := range latencies {
		if latency == 0 {
			return measured{}, fmt.Errorf("a request never ran")
		}
	}
	return latencies.into(result), nil
}
