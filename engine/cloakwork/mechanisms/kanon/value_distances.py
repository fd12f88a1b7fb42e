"""How far the values of groups lie from a reference, for t-closeness: all groups at once."""

import numpy as np

from cloakwork.base.arrays import Floats, Ints


def total_variation(reference: Ints, values: Ints, group: Ints) -> Floats:
    """For each group of the codes ``values`` half the sum of how much its shares differ from those
    of ``reference``.
    """
    width = int(reference.max()) + 1
    share_in_reference = np.bincount(reference) / len(reference)
    pairs, count = np.unique(group * width + values, return_counts=True)
    group_of_pair, value_of_pair = np.divmod(pairs, width)
    share = count / np.bincount(group)[group_of_pair]
    # Half the sum of differences is what the two do not have in common.
    common = np.minimum(share, share_in_reference[value_of_pair])
    return np.maximum(1 - np.bincount(group_of_pair, common), 0.0)


def earth_mover_distance(reference: Ints, values: Ints, group: Ints, positions: Floats) -> Floats:
    """For each group of the codes ``values`` the integral of how far its distribution function lies
    from that of ``reference``.

    Between two neighbouring values of a group its own distribution function is level. That of the
    reference rises, and crosses the level at one position at most. So two differences of the
    reference's integral give the area, and the cost is linear in values.
    """
    count_in_reference = np.bincount(reference, minlength=len(positions))
    rising = np.cumsum(count_in_reference) / len(reference)
    area = np.concatenate([[0.0], np.cumsum(rising[:-1] * np.diff(positions))])
    order = np.lexsort((values, group))
    of_group, size = group[order], np.bincount(group)
    first = np.cumsum(size) - size
    # The level from each value of a group to its next one; from the last value to the end.
    left = values[order]
    right = np.append(left[1:], 0)
    last = first + size - 1
    right[last] = len(positions) - 1
    values_up_to = np.arange(len(left)) - first[of_group] + 1
    level = values_up_to / size[of_group]
    # Where the reference crosses the level; up to there it lies below.
    cross = np.clip(np.searchsorted(rising, level), left, right)
    below = level * (positions[cross] - positions[left]) - (area[cross] - area[left])
    above = (area[right] - area[cross]) - level * (positions[right] - positions[cross])
    # Before its first value a group's distribution function is 0: all of the reference's area.
    before_first = area[left[first]]
    return np.asarray(before_first + np.bincount(of_group, below + above), np.float64)
