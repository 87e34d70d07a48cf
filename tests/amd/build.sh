#!/bin/sh
# build.sh DIR: make in DIR what run.py boots: an uncompressed Debian cloud kernel, an initrd, a root file system.
# Once; about 2 minutes and 1.5 GB.  Root, for debootstrap's chroot.  The root has the host's Debian release, so that the
# host's virtual environment (same Python) runs in it as it is.
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
mkdir -p "$1"
cd "$1"
. /etc/os-release
suite=${VERSION_CODENAME:?}
include=kmod,iproute2,procps,strace,gcc,libc6-dev,python3-venv,libseccomp2,libcap2,runc,crun,bash
# For a boot with systemd (machine.run(init="systemd")): its manager, its bus, an engine, AppArmor's tools.
include=$include,systemd,systemd-sysv,libpam-systemd,dbus,dbus-user-session,podman,conmon,netavark,uidmap,apparmor

kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1)
[ -n "$kernel" ] || { apt-get update >/dev/null; kernel=$(apt-cache depends linux-image-cloud-amd64 |
    sed -n 's/.*Depends: \(linux-image-[^ ]*\)$/\1/p' | head -n 1); }
version=${kernel#linux-image-}
if ! [ -d cloud/boot ]; then
    apt-get download "$kernel"
    dpkg-deb -x "$kernel"_*.deb cloud
    rm -f "$kernel"_*.deb
fi
/usr/bin/python3 "$here/extract_vmlinux.py" "cloud/boot/vmlinuz-$version" vmlinux

if [ "$(cat rootfs.done 2>/dev/null)" != "$suite $include" ]; then
    # A debootstrap that was ended leaves its mounts.
    for mounted in proc sys; do umount rootfs/$mounted 2>/dev/null || true; done
    rm -rf --one-file-system rootfs
    debootstrap --variant=minbase --include=$include "$suite" rootfs >debootstrap.log 2>&1 ||
        { tail -n 20 debootstrap.log >&2; exit 1; }
    rm -rf rootfs/var/cache/apt/archives/*.deb
    echo "$suite $include" >rootfs.done
fi
rm -rf rootfs/lib/modules
mkdir -p rootfs/lib/modules
cp -a "cloud/lib/modules/$version" rootfs/lib/modules/
depmod -b rootfs "$version"
cp /bin/busybox rootfs/bin/busybox
install -m 755 "$here/vm-init" "$here/vm-job" rootfs/sbin/
install -m 644 "$here/krun-job.service" rootfs/etc/systemd/system/
mkdir -p rootfs/etc/systemd/system/multi-user.target.wants
ln -sf ../krun-job.service rootfs/etc/systemd/system/multi-user.target.wants/
# Nothing that waits for a disk, a console login or the network.
: >rootfs/etc/fstab
for unit in getty@tty1.service serial-getty@ttyS0.service apt-daily.timer apt-daily-upgrade.timer podman.service \
    podman.socket podman-auto-update.timer podman-restart.service systemd-networkd.service; do
    ln -sf /dev/null "rootfs/etc/systemd/system/$unit"
done
mke2fs -q -F -t ext4 -O ^has_journal -d rootfs -L vmroot root.img.new 2600M

rm -rf initrd.tree
mkdir -p initrd.tree/bin initrd.tree/dev initrd.tree/proc initrd.tree/sys initrd.tree/mod initrd.tree/mnt
cp /bin/busybox initrd.tree/bin/
for name in sh mount insmod cat ls sleep switch_root dmesg grep tail poweroff; do
    ln -s busybox initrd.tree/bin/$name
done
for name in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk; do
    file=$(find cloud/lib/modules -name "$name.ko*" | head -n 1)
    case $file in
    *.xz) xz -dc "$file" >initrd.tree/mod/$name.ko ;;
    ?*) cp "$file" initrd.tree/mod/ ;;
    esac
done
install -m 755 "$here/initrd-init" initrd.tree/init
(cd initrd.tree && find . | cpio -o -H newc --quiet) >initrd.cpio
rm -rf initrd.tree
mv root.img.new root.img
