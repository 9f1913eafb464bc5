from __future__ import annotations

from collections.abc import Callable

from envkit.monitor.alarms import Alarm, Watch
from envkit.monitor.counters import CudaMemory, Sample

MIB = 1 << 20


def memory(
    *, allocated: int = 100, reserved: int = 400, peak: int = 300, retries: int = 0, ooms: int = 0
) -> CudaMemory:
    return CudaMemory(
        allocated_bytes=allocated * MIB,
        reserved_bytes=reserved * MIB,
        peak_allocated_bytes=peak * MIB,
        peak_reserved_bytes=reserved * MIB,
        retries=retries,
        ooms=ooms,
    )


def alarms(at: Callable[[int], CudaMemory | None], host: Callable[[int], int]) -> list[Alarm]:
    watch = Watch(lambda: "train.py:88 keeps them.")
    return [
        alarm
        for index in range(60)
        for alarm in watch.add(
            Sample(step=index * 10, seconds=index, cuda=at(index), host_bytes=host(index) * MIB)
        )
    ]


def on_gpu(at: Callable[[int], CudaMemory]) -> list[Alarm]:
    return alarms(at, lambda _: 500)


def test_a_quiet_run_raises_nothing() -> None:
    assert on_gpu(lambda i: memory(allocated=100 + i % 3)) == []


def test_a_leak_is_raised_once_with_its_rate_and_the_line() -> None:
    found = on_gpu(lambda i: memory(allocated=100 + 5 * i, reserved=400 + 5 * i, peak=300 + 5 * i))
    assert [alarm.kind for alarm in found] == ["leak"]
    assert "512.00 KiB a step" in found[0].text
    assert found[0].text.endswith("train.py:88 keeps them.")
    assert found[0].step == 110


def test_what_grows_and_then_stays_is_no_leak() -> None:
    assert on_gpu(lambda i: memory(allocated=100 + min(i, 8))) == []


def test_growth_that_is_too_little_is_no_leak() -> None:
    def at(index: int) -> CudaMemory:
        return CudaMemory(
            allocated_bytes=100 * MIB + index * 512,
            reserved_bytes=400 * MIB,
            peak_allocated_bytes=300 * MIB,
            peak_reserved_bytes=400 * MIB,
            retries=0,
            ooms=0,
        )

    assert on_gpu(at) == []


def test_reserved_growing_alone_is_fragmentation() -> None:
    found = on_gpu(lambda i: memory(reserved=400 + 20 * i))
    assert [alarm.kind for alarm in found] == ["fragmentation"]
    assert "220.00 MiB in 110 steps" in found[0].text
    assert "expandable_segments:True" in found[0].text


def test_reserved_growing_because_the_peak_does_is_none() -> None:
    assert on_gpu(lambda i: memory(reserved=400 + 20 * i, peak=300 + 20 * i)) == []


def test_flushes_and_caught_errors_are_raised_once() -> None:
    found = on_gpu(lambda i: memory(retries=i // 20, ooms=i // 30))
    assert [(alarm.kind, alarm.step) for alarm in found] == [("retries", 200), ("caught_oom", 300)]
    assert "once so far" in found[0].text


def test_without_a_gpu_the_resident_memory_is_watched() -> None:
    found = alarms(lambda _: None, lambda i: 500 + 7 * i)
    assert [alarm.kind for alarm in found] == ["host_leak"]
    assert alarms(lambda _: None, lambda i: 500 + i) == []  # 64 MiB are not reached
    assert on_gpu(lambda _: memory()) == []
