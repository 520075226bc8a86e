package main

import (
	"math"
	"slices"
	"time"
)

// samples are latencies in nanoseconds, every one kept.
type samples []int64

func (s *samples) add(latency time.Duration) { *s = append(*s, latency.Nanoseconds()) }

// into writes the quantiles and the longest into the figures of a run.
func (s samples) into(m measured) measured {
	s.put(m, map[string]int{"p50_ns": 500, "p99_ns": 990, "p999_ns": 999})
	if len(s) > 0 {
		m.LongestWaitNs = &s[len(s)-1]
	}
	return m
}

// intoRequests writes the quantiles as those of whole requests, beside those of wake-ups.
func (s samples) intoRequests(m measured) measured {
	s.put(m, map[string]int{"request_p50_ns": 500, "request_p99_ns": 990})
	return m
}

// intoDues writes the quantiles as those from when each was due, beside those of wake-ups.
func (s samples) intoDues(m measured) measured {
	s.put(m, map[string]int{"due_p50_ns": 500, "due_p99_ns": 990})
	return m
}

// put sorts them and writes these quantiles, in thousandths.
func (s samples) put(m measured, permilles map[string]int) {
	slices.Sort(s)
	for name, permille := range permilles {
		m.Counters[name] = s.quantile(permille)
	}
}

func (s samples) quantile(permille int) int64 {
	if len(s) == 0 {
		return 0
	}
	return s[max((len(s)*permille+999)/1000, 1)-1]
}

// random is SplitMix64, as in crates/bench/src/workloads/random.rs.
type random uint64

func (r *random) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	mixed := uint64(*r)
	mixed = (mixed ^ mixed>>30) * 0xbf58476d1ce4e5b9
	mixed = (mixed ^ mixed>>27) * 0x94d049bb133111eb
	return mixed ^ mixed>>31
}

func (r *random) between(from, to uint64) uint64 { return from + r.next()%(to-from+1) }

func (r *random) untilNext(mean time.Duration) time.Duration {
	fraction := float64(r.next()>>11+1) / (1 << 53)
	return time.Duration(float64(mean) * -math.Log(fraction))
}
