"""hygiene"""
