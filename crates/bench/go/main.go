// The workloads of quadrille-bench for Go: the same parameters in (one JSON argument), the same line of JSON out.
//
// GOMAXPROCS is the number of workers; it comes from the environment, so that the Go runtime starts with it. Every
// workload mirrors the Rust one of its name: same tasks, same messages, same start barrier, same verification. A goroutine is
// what Rust has tasks and threads for, so a workload is the same program for both.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"
	"time"
)

// spec is what one run does; see crates/bench/src/spec.rs.
type spec struct {
	Workload params `json:"workload"`
	Progress bool   `json:"progress"`
}

// params holds the fields of every workload; a workload reads its own.
type params struct {
	Name        string `json:"name"`
	Groups      int    `json:"groups"`
	Fds         int    `json:"fds"`
	Loops       int    `json:"loops"`
	Size        int    `json:"size"`
	Capacity    int    `json:"capacity"`
	Transport   string `json:"transport"`
	Tasks       int    `json:"tasks"`
	Batch       int    `json:"batch"`
	Yields      int    `json:"yields"`
	Rounds      int    `json:"rounds"`
	Connections int    `json:"connections"`
	Pairs       int    `json:"pairs"`
	RoundTrips  int    `json:"round_trips"`
	Leaves      int    `json:"leaves"`
	Threads     int    `json:"threads"`
	SpinUs      int    `json:"spin_us"`
	Woken       int    `json:"woken"`
	Yielders    int    `json:"yielders"`
	WorkUs      int    `json:"work_us"`
	Service     string `json:"service"`
	Rate        int    `json:"rate"`
	Spinner     bool   `json:"spinner"`
	Turns       int    `json:"turns"`
	ViaChannel  bool   `json:"via_channel"`
	Depth       int    `json:"depth"`
	Number      int    `json:"number"`
	Sleeps      int    `json:"sleeps"`
	FromUs      int    `json:"from_us"`
	ToUs        int    `json:"to_us"`
	Timers      int    `json:"timers"`
	Messengers  int    `json:"messengers"`
	Workers     int    `json:"workers"`
	TickUs      int    `json:"tick_us"`
	Heavy       int    `json:"heavy"`
	PieceUs     int    `json:"piece_us"`
	Percent     int    `json:"percent"`
	Millis      int    `json:"millis"`
	Elements    int    `json:"elements"`
	Passes      int    `json:"passes"`
	SleepUs     int    `json:"sleep_us"`
	Kib         int    `json:"kib"`
	Operations  int    `json:"operations"`
	Requests    int    `json:"requests"`
}

// measured is the answer; see crates/bench/src/outcome.rs.
type measured struct {
	Ops           int64            `json:"ops"`
	WallNs        int64            `json:"wall_ns"`
	UserNs        int64            `json:"user_ns"`
	SysNs         int64            `json:"sys_ns"`
	Vcsw          int64            `json:"vcsw"`
	Ivcsw         int64            `json:"ivcsw"`
	LongestWaitNs *int64           `json:"longest_wait_ns"`
	Counters      map[string]int64 `json:"counters"`
}

// unsupported is an error that says that there is no such thing in Go.
type unsupported string

func (reason unsupported) Error() string { return string(reason) }

// meter is a span that has begun.
type meter struct {
	usage syscall.Rusage
	start time.Time
}

func startMeter() meter {
	var m meter
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &m.usage)
	m.start = time.Now()
	return m
}

func (m meter) stop(ops int) measured {
	wall := time.Since(m.start)
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return measured{
		Ops:      int64(ops),
		WallNs:   wall.Nanoseconds(),
		UserNs:   usage.Utime.Nano() - m.usage.Utime.Nano(),
		SysNs:    usage.Stime.Nano() - m.usage.Stime.Nano(),
		Vcsw:     int64(usage.Nvcsw - m.usage.Nvcsw),
		Ivcsw:    int64(usage.Nivcsw - m.usage.Nivcsw),
		Counters: map[string]int64{},
	}
}

func run(p params, progress bool) (measured, error) {
	switch p.Name {
	case "hackbench":
		return hackbench(p, progress)
	case "spawn_join":
		return spawnJoin(p)
	case "spawn_remote", "block_on":
		return measured{}, unsupported("every thread of a Go program is a worker: there is no outside to spawn from")
	case "blocking":
		return measured{}, unsupported("a goroutine may block: there are no other threads for that")
	case "broadcast":
		return measured{}, unsupported("Go has no channel whose every message reaches every receiver")
	case "yield":
		return yields(p)
	case "ping_pong":
		return pingPong(p)
	case "skynet":
		return skynet(p)
	case "sleepers":
		return sleepers(p)
	case "spin":
		return spin(p)
	case "closed":
		return closed(p)
	case "chain":
		return chain(p)
	case "fib":
		return fib(p)
	case "timers":
		return timers(p)
	case "timeout_drop":
		return timeoutDrop(p)
	case "schbench":
		return schbench(p)
	case "schbench_requests":
		return schbenchRequests(p)
	case "mixed":
		return mixed(p)
	case "load":
		return load(p)
	case "pipe":
		return pipe(p)
	case "stream":
		return stream(p)
	case "numa":
		return numa(p)
	case "serve":
		return serve(p)
	case "idle":
		return idle(p)
	}
	return measured{}, fmt.Errorf("no workload %q", p.Name)
}

// shortened is the warm-up: about an eighth of the work, of skynet a tenth, at least one of each.
func shortened(p params) params {
	part := func(count int) int { return max(count/8, 1) }
	p.Loops = part(p.Loops)
	if p.Name == "spawn_join" {
		p.Tasks = max(part(p.Tasks), p.Batch)
	}
	if p.Name == "yield" {
		p.Yields, p.Rounds = part(p.Yields*p.Rounds), 1
	}
	p.RoundTrips = part(p.RoundTrips)
	p.Leaves = max(p.Leaves/children, 1)
	p.SpinUs = part(p.SpinUs)
	p.Turns = part(p.Turns)
	p.Requests = part(p.Requests)
	p.Sleeps, p.Timers, p.Millis, p.Passes = part(p.Sleeps), part(p.Timers), part(p.Millis), part(p.Passes)
	switch p.Name {
	case "chain", "schbench":
		p.Rounds = part(p.Rounds)
	case "fib":
		// As in spec/workload.rs: fewer rounds, and then a smaller number; five steps are about an eighth.
		if p.Rounds < 8 {
			p.Number = max(p.Number-5, 1)
		}
		p.Rounds = part(p.Rounds)
	}
	return p
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: quadrille-bench-go JSON (started by quadrille compare and hackbench)")
		os.Exit(2)
	}
	var s spec
	if err := json.Unmarshal([]byte(os.Args[1]), &s); err != nil {
		fmt.Fprintln(os.Stderr, "bad run description:", err)
		os.Exit(2)
	}
	var err error
	switch s.Workload.Name {
	case "sleepers", "serve", "idle":
		// What the first threads and connections cost is the question; servers are warmed up by the load generator.
	default:
		_, err = run(shortened(s.Workload), false)
	}
	var result measured
	if err == nil {
		result, err = run(s.Workload, s.Progress)
	}
	var answer any = map[string]measured{"measured": result}
	if reason, ok := err.(unsupported); ok {
		answer = map[string]string{"unsupported": string(reason)}
	} else if err != nil {
		answer = map[string]string{"failed": err.Error()}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		os.Exit(1)
	}
}
