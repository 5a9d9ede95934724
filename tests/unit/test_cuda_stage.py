"""Batches on their way to a GPU: nothing is overwritten before whoever reads it has read it."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest

from late_cuda import LateCuda
from rldyno_rig.backends.cuda import Driver, HostMemory, Place, Stage

Arrays = tuple[np.ndarray, ...]
COMPUTING = 1_000
"""The framework's own stream."""


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> LateCuda:
    library = LateCuda()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: library)
    return library


@pytest.fixture
def driver(late: LateCuda) -> Driver:
    return Driver()


@pytest.fixture
def stage(driver: Driver) -> Stage:
    def place(memory: HostMemory) -> Place:
        placed = tuple(np.zeros_like(array) for array in memory.arrays)
        copies = [(p.ctypes.data, offset, p.nbytes) for p, offset in zip(placed, memory.offsets, strict=True)]
        return Place(driver, placed, copies)

    return Stage(driver, batch(0), place)


def batch(number: int) -> Arrays:
    return np.full((4, 3), number, np.float32), np.full(4, number, np.int64)


def numbers(arrays: Arrays) -> set[float]:
    """What a batch is made of: one number, if it is whole."""
    return {float(x) for array in arrays for x in array.flat}


def put(stage: Stage, arrays: Arrays) -> Place:
    place = stage.next_place()
    stage.put(place, arrays)
    return place


def arrive(stage: Stage, place: Place) -> set[float]:
    stage.driver.need(place)
    stage.driver.call.cuEventSynchronize(place.arrived)
    return numbers(place.placed)


def consume(late: LateCuda, place: Place) -> set[float]:
    """As an update: wait for the batch, read it and say so, on the device; what it saw will be in the set."""
    seen: set[float] = set()
    late.cuStreamWaitEvent(COMPUTING, place.arrived, 0)
    late.submit(COMPUTING, lambda: seen.update(numbers(place.placed)))
    late.cuEventRecord(place.consumed, COMPUTING)
    return seen


def test_a_copy_begins_at_once_and_is_there_when_it_has_arrived(stage: Stage) -> None:
    place = put(stage, batch(1))
    assert numbers(place.placed) == {0}, "put does not block"
    assert arrive(stage, place) == {1}


def test_as_many_batches_as_places_are_good_at_a_time(stage: Stage) -> None:
    given = list(range(1, Stage.PLACES + 1))
    places = [put(stage, batch(number)) for number in given]
    for place in places:
        arrive(stage, place)
    assert [numbers(place.placed) for place in places] == [{number} for number in given]


def test_page_locked_memory_is_not_refilled_before_its_copy_is_done(late: LateCuda, stage: Stage) -> None:
    given = list(range(1, 2 * Stage.PLACES + 1))
    seen = [consume(late, put(stage, batch(number))) for number in given]
    late.finish(COMPUTING)
    assert seen == [{number} for number in given]


def test_the_host_may_change_its_arrays_after_put(stage: Stage) -> None:
    arrays = batch(1)
    place = put(stage, arrays)
    for array in arrays:
        array[...] = 9
    assert arrive(stage, place) == {1}


def test_a_place_is_not_written_again_before_it_was_consumed(late: LateCuda, stage: Stage) -> None:
    seen = consume(late, put(stage, batch(1)))
    for number in range(2, Stage.PLACES + 2):
        place = put(stage, batch(number))
    assert arrive(stage, place) == {Stage.PLACES + 1}, "it took the place of the first"
    late.finish(COMPUTING)
    assert seen == {1}


def test_page_locked_arrays_are_copied_from_where_they_lie(late: LateCuda, stage: Stage) -> None:
    locked = stage.lock(batch(1))
    for slot in stage.slots:
        slot.fill(batch(8))
    late.calls.clear()
    place = put(stage, locked)
    assert not late.calls, "the host is not held up by it"
    stage.driver.begin_waiting()
    assert "cuEventSynchronize" not in late.calls, "no slot is waited for"
    assert [numbers(slot.arrays) for slot in stage.slots] == [{8}] * Stage.PLACES, "no slot is filled"
    assert late.sources == [range(a.ctypes.data, a.ctypes.data + a.nbytes) for a in locked]
    assert arrive(stage, place) == {1}


def test_a_copy_that_waits_begins_when_it_is_needed_and_not_before(late: LateCuda, stage: Stage) -> None:
    here, coming = put(stage, batch(1)), put(stage, stage.lock(batch(2)))
    late.calls.clear()
    assert arrive(stage, here) == {1}
    assert "cuMemcpyHtoDAsync_v2" not in late.calls, "another batch was needed"
    assert arrive(stage, coming) == {2}
    late.calls.clear()
    assert arrive(stage, coming) == {2}
    assert "cuMemcpyHtoDAsync_v2" not in late.calls, "it is copied once"


def test_a_copy_that_waits_does_not_overwrite_what_is_still_read(late: LateCuda, stage: Stage) -> None:
    seen = consume(late, put(stage, batch(1)))
    for number in range(2, Stage.PLACES + 2):
        place = put(stage, stage.lock(batch(number)))
    assert arrive(stage, place) == {Stage.PLACES + 1}, "it took the place of the first"
    late.finish(COMPUTING)
    assert seen == {1}


def test_a_copy_that_waits_does_not_overwrite_a_later_batch(stage: Stage) -> None:
    put(stage, stage.lock(batch(1)))
    places = [put(stage, batch(number)) for number in range(2, Stage.PLACES + 2)]
    stage.driver.begin_waiting()
    for place in places:
        arrive(stage, place)
    assert [numbers(place.placed) for place in places] == [{number} for number in range(2, Stage.PLACES + 2)]


def test_others_of_the_same_shapes_take_the_slots(stage: Stage) -> None:
    locked = stage.lock(batch(1))
    places = [put(stage, batch(2)), put(stage, locked), put(stage, batch(3))]
    for place in places:
        arrive(stage, place)
    assert [numbers(place.placed) for place in places] == [{2}, {1}, {3}]


def test_arrays_lie_apart_in_page_locked_memory(driver: Driver) -> None:
    like = np.zeros(1, np.uint8), np.zeros((5, 60), np.float32), np.zeros(2, np.int64)
    memory = HostMemory(driver, like)
    assert memory.offsets == [0, 256, 256 + 1280]
    memory.fill([np.full_like(array, number) for number, array in enumerate(like)])
    assert [numbers((array,)) for array in memory.arrays] == [{0}, {1}, {2}]


def test_page_locked_memory_is_given_back_once(late: LateCuda, driver: Driver) -> None:
    stage = Stage(driver, batch(0), lambda memory: Place(driver, (), []))
    stage.lock(batch(1))
    assert len(late.allocated) == Stage.PLACES + 1
    del stage
    gc.collect()
    assert sorted(late.freed) == sorted(late.allocated)


@pytest.mark.parametrize("function", ["cuMemcpyHtoDAsync_v2", "cuStreamWaitEvent", "cuEventSynchronize"])
def test_a_call_that_fails_says_which_and_why(late: LateCuda, stage: Stage, function: str) -> None:
    late.status[function] = 700
    with pytest.raises(RuntimeError, match=f"{function} with error 700"):
        put(stage, batch(1))


def test_a_machine_without_gpu_is_told_from_the_start(late: LateCuda) -> None:
    late.status["cuInit"] = 100
    with pytest.raises(RuntimeError, match="cuInit with error 100"):
        Driver()


def test_a_driver_that_is_gone_takes_memory_back_in_silence(late: LateCuda, driver: Driver) -> None:
    late.status["cuMemFreeHost"] = 4
    assert driver.call.cuMemFreeHost(1) == 4
