"""AMD GPUs through the kernel's DRM interface. So far: packets and registers, declared as data."""
