"""Each user library is loaded under a name that the loader has not seen before.

When this fails, a rebuilt user library runs its old code.
"""

import os

from sparkle_drv.backends.cpu import image


def test_no_name_comes_twice_and_each_leads_to_its_folder():
    names = {image._unique_detour() for _ in range(3000)}
    assert len(names) == 3000
    assert all(os.path.normpath("/proc/self/fd/" + name) == "/proc/self/fd" for name in names)
    assert max(map(len, names)) < 200


def test_a_library_is_a_private_copy_for_as_long_as_it_is_needed(userlib):
    path = userlib.mark(5)
    with (
        image.loadable(str(path), b"", "mark") as one,
        image.loadable("", path.read_bytes(), "mark") as two,
    ):
        assert one != two
        for name in (one, two):
            with open(name, "rb") as file:
                assert file.read() == path.read_bytes()
        assert not os.path.samefile(one, path)
        number = os.path.basename(two)
    assert not os.path.exists(f"/proc/self/fd/{number}") or os.path.basename(one) == number
